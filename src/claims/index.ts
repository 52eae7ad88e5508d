export { ClaimConsumer, type ClaimConsumerOptions } from './consumer.ts'
export { type ClaimHapax, type ClaimHapaxOptions, LeaseCore } from './hapax.ts'
export { ClaimWorker } from './worker.ts'
