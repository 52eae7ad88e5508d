/**
 * Thrown by a handler of hapax's own before it has done anything: the row is put back for a while. That uses up no attempt, and is no
 * failure that anybody has to hear of.
 */
export class PutOff extends Error {
  override readonly name = 'PutOff'
  readonly delayMs: number

  constructor(delayMs: number) {
    super(`put off for ${delayMs} ms`)
    this.delayMs = delayMs
  }
}
