export type { ClaimConsumerOptions } from './consumer.ts'
export { type ClaimHapax, type ClaimHapaxOptions, LeaseCore } from './hapax.ts'
export type { ClaimWorkerOptions } from './worker.ts'
