import { signal } from '@preact/signals'
import { skewMs } from './api.ts'

/** The time, once a second, as the server has it. */
export const now = signal(Date.now())
setInterval(() => {
  if (!document.hidden) now.value = Date.now() + skewMs.peek()
}, 1_000)

/** Whether times are shown as they are instead of as ages. */
export const exactTimes = signal(false)

const grouped = new Intl.NumberFormat('en')
const compactNumber = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 })

/** `1,243`; of what was estimated: `about 1.2 million` would hide that it is a count, so `≈ 1,200,000`. */
export function count(value: number, estimated = false): string {
  return `${estimated && value > 0 ? '≈ ' : ''}${grouped.format(value)}`
}

/** `1.24K`, for places with little room. */
export function compact(value: number): string {
  return Math.abs(value) < 10_000 ? grouped.format(Math.round(value * 10) / 10) : compactNumber.format(value)
}

/** `1 message`, `2 messages`. */
export function plural(value: number, noun: string): string {
  return `${grouped.format(value)} ${noun}${value === 1 ? '' : 's'}`
}

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
]

/** `2 d 3 h`, `4 min 10 s`, `850 ms`: the two largest units. */
export function span(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  const first = UNITS.findIndex(([unit]) => ms >= unit)
  const [unit, name] = UNITS[first] ?? [1_000, 's']
  const [next, nextName] = UNITS[first + 1] ?? [0, '']
  const rest = next === 0 ? 0 : Math.floor((ms % unit) / next)
  const whole = Math.floor(ms / unit)
  return rest === 0 || whole >= 10 ? `${whole} ${name}` : `${whole} ${name} ${rest} ${nextName}`
}

/** `3 min ago`, `in 20 s`. */
export function relative(at: string, nowMs: number): string {
  const ms = nowMs - Date.parse(at)
  if (Math.abs(ms) < 1_500) return 'now'
  return ms < 0 ? `in ${span(-ms)}` : `${span(ms)} ago`
}

const clock = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
})

/** In the viewer's zone. */
export function exact(at: string): string {
  return clock.format(new Date(at))
}

/** As the server has it. */
export function utc(at: string): string {
  return new Date(at).toISOString().replace('T', ' ').replace('Z', ' UTC')
}

/** `1.2 kB`. */
export function size(bytes: number): string {
  if (bytes < 1_000) return plural(bytes, 'byte')
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}
