import type { Child } from '../../support/child.ts'

/** A place in a crew: its process is killed and replaced, again and again. */
export class Post<Said> {
  readonly #hire: () => Child<Said>
  #process: Child<Said> | undefined

  constructor(hire: () => Child<Said>) {
    this.#hire = hire
  }

  /** Resolves when the process says that it works. */
  async fill(): Promise<void> {
    this.#process = this.#hire()
    await this.#process.next()
  }

  signal(signal: NodeJS.Signals): void {
    this.#process?.kill(signal)
  }

  /** Ends the process as a crash does. Rejects when it had ended by itself. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    const ending = await this.#process?.ended
    if (ending?.signal !== 'SIGKILL') throw new Error(`a process of the crew ended by itself: ${ending?.errors}`)
  }

  /** Ends the process the gentle way; answers the last thing that it said. */
  async dismiss(): Promise<Said> {
    const leaving = this.#process as Child<Said>
    leaving.tell({ stop: true })
    const said = await leaving.next()
    const { code, signal, errors } = await leaving.ended
    if (code !== 0 || errors !== '') throw new Error(`a process of the crew ended with ${signal ?? code}: ${errors}`)
    return said
  }

  /** Whatever has happened: nothing is left running. */
  async destroy(): Promise<void> {
    this.signal('SIGKILL')
    await this.#process?.ended
  }
}
