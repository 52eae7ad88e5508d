/** Calls a function the first time, and returns the same result each time. */
export function onlyOnce<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined
  return () => {
    result ??= work()
    return result
  }
}
