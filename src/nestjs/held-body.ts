/** The body of a response that is held back: what is written on one side is read on the other, as far as it is wanted. */
export class HeldBody {
  readonly stream: ReadableStream<Uint8Array>
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined
  #isOpen = true
  /** Whether a writer was told to wait. */
  #waits = false

  /** `drained` is called when a writer that was told to wait may go on. */
  constructor(drained: () => void) {
    this.stream = new ReadableStream({
      start: (controller) => {
        this.#controller = controller
      },
      pull: () => {
        if (!this.#waits) return
        this.#waits = false
        drained()
      },
      // Too large, or of a kind that cannot be kept.
      cancel: () => {
        this.#isOpen = false
      },
    })
  }

  /** Takes the arguments of `write`. False: no more is wanted, or, of a writer that is patient, not before this was read. */
  write([chunk, encoding, callback]: readonly unknown[], isPatient: boolean): boolean {
    const bytes = bytesOf(chunk, encoding)
    if (this.#isOpen && bytes !== undefined && bytes.length > 0) this.#controller?.enqueue(bytes)
    const done = [chunk, encoding, callback].find((each) => typeof each === 'function')
    if (typeof done === 'function') queueMicrotask(() => done())
    if (!this.#isOpen) return false
    this.#waits = isPatient && (this.#controller?.desiredSize ?? 0) <= 0
    return !this.#waits
  }

  /** Takes the arguments of `end`. */
  end(args: readonly unknown[]): void {
    this.write(args, false)
    if (this.#isOpen) this.#controller?.close()
    this.#isOpen = false
  }

  /** It will not come to its end: whoever reads it gets this error. */
  fail(error: unknown): void {
    if (this.#isOpen) this.#controller?.error(error)
    this.#isOpen = false
  }
}

function bytesOf(chunk: unknown, encoding: unknown): Uint8Array | undefined {
  if (typeof chunk === 'string') return Buffer.from(chunk, isEncoding(encoding) ? encoding : 'utf8')
  return chunk instanceof Uint8Array ? chunk : undefined
}

function isEncoding(value: unknown): value is BufferEncoding {
  return typeof value === 'string' && Buffer.isEncoding(value)
}
