/** Runs `work` for every item, at most `limit` at a time. After a rejection no further item is begun. */
export async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  if (items.length === 1) return work(items[0] as T, 0)
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++
      try {
        await work(items[index] as T, index)
      } catch (error) {
        next = items.length
        throw error
      }
    }
  }
  const lanes = await Promise.allSettled(Array.from({ length: Math.min(limit, items.length) }, lane))
  const failed = lanes.find((each) => each.status === 'rejected')
  if (failed) throw failed.reason
}
