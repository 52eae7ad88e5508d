import { type ChildProcess, fork } from 'node:child_process'

/** How a process ended. */
export interface Ending {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly errors: string
}

/** A process of a rig: it gets a job, sends messages, and ends on its own or is killed. */
export class Child<Said> {
  readonly ended: Promise<Ending>
  readonly #process: ChildProcess
  readonly #said: Said[] = []
  #errors = ''
  #over = false
  #look = (): void => {}

  /** A process that hangs is killed with SIGABRT at its deadline. `execPath` is the Node.js that runs it, with these flags. */
  constructor(
    program: URL,
    job: unknown,
    deadlineMs = 60_000,
    execPath = process.execPath,
    flags: readonly string[] = [],
  ) {
    this.#process = fork(program, [JSON.stringify(job)], {
      execPath,
      execArgv: ['--conditions=hapax-source', ...flags],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      timeout: deadlineMs,
      killSignal: 'SIGABRT',
    })
    this.#process.stderr?.on('data', (chunk) => {
      this.#errors += chunk
    })
    this.#process.on('message', (message) => {
      this.#said.push(message as Said)
      this.#look()
    })
    this.ended = new Promise((resolve, reject) => {
      this.#process.on('error', reject)
      this.#process.on('close', (code, signal) => {
        this.#over = true
        this.#look()
        resolve({ code, signal, errors: this.#errors })
      })
    })
    // A caller that waits for it gets the error. Otherwise it should not fail the whole run.
    this.ended.catch(() => {})
  }

  get pid(): number {
    return this.#process.pid as number
  }

  /** The next message of the process; rejects if the process ends first. */
  next(): Promise<Said> {
    return new Promise((resolve, reject) => {
      this.#look = () => {
        const said = this.#said.shift()
        if (said === undefined && !this.#over) return
        this.#look = () => {}
        if (said !== undefined) resolve(said)
        else reject(new Error(`the process ended before it sent a message\n${this.#errors}`))
      }
      this.#look()
    })
  }

  /** Sends a message. A process that has just ended is ignored: a caller that waits for it learns how it ended. */
  tell(message: object): void {
    this.#process.send(message, () => {})
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal)
  }
}

/** The job that a process of a rig was given. */
export function job<T>(): T {
  return JSON.parse(process.argv[2] ?? 'null') as T
}

/** Sends a message to the process that started this one; prints it where that did not ask for messages. */
export function say(message: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null): void => (error ? reject(error) : resolve())
    if (process.send === undefined) process.stdout.write(`${JSON.stringify(message)}\n`, done)
    else process.send(message, undefined, undefined, done)
  })
}

/** The next message of the process that started this one. */
export function told(): Promise<unknown> {
  return new Promise((resolve) => process.once('message', resolve))
}

/** Ends this process when its parent has died: the parent's deadline, which would end it, died as well. */
export function endWithParent(): void {
  process.on('disconnect', () => process.exit())
}
