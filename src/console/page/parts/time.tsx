import { exact, exactTimes, now, relative, span, utc } from '../state/format.ts'

/** A moment: how long ago, with the exact time at hand. */
export function Time({ at }: { readonly at: string | null }) {
  if (at === null) return <span class="dim">–</span>
  return (
    <time dateTime={at} title={`${exact(at)} here, ${utc(at)}`}>
      {exactTimes.value ? exact(at) : relative(at, now.value)}
    </time>
  )
}

/** How old something is, which began then: `4 min`. */
export function Age({ since }: { readonly since: string | null }) {
  if (since === null) return <span class="dim">–</span>
  return (
    <time dateTime={since} title={`since ${exact(since)} here, ${utc(since)}`}>
      {exactTimes.value ? exact(since) : span(Math.max(0, now.value - Date.parse(since)))}
    </time>
  )
}
