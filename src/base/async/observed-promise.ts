/** The outcome of some work, which knows whether anybody has ever waited for it. Nobody is told of an error that nobody waits for. */
export class Watched<T> extends Promise<T> {
  /** What `then` and its like make is a promise like any other. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  seen = false

  constructor(work: Promise<T>) {
    super((resolve, reject) => work.then(resolve, reject))
    super.then(undefined, () => {})
  }

  // biome-ignore lint/suspicious/noThenProperty: await calls it, because this is not a plain promise
  override then<A = T, B = never>(
    resolved?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.seen = true
    return super.then(resolved, rejected)
  }
}
