/** A server that a run can use. */
export interface Obtained {
  /** How it was obtained, as the table says it. */
  readonly how: string
  /** What makes `scripts/services.ts` use it. */
  readonly env: Readonly<Record<string, string>>
}

/** This way leads to no server here; the message says why. */
export class NotToBeHad extends Error {
  override readonly name = 'NotToBeHad'
}
