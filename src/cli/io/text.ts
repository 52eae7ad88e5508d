const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
/** Characters that take two columns: East Asian wide forms and emoji. */
const WIDE =
  /^[\p{Emoji_Presentation}\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u

/** How many terminal columns a text takes. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemes.segment(text)) width += WIDE.test(segment) ? 2 : 1
  return width
}

/** The text, cut with an ellipsis if it is wider. Never splits a character. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  let [kept, used] = ['', 0]
  for (const { segment } of graphemes.segment(text)) {
    used += widthOf(segment)
    if (used > width - 1) break
    kept += segment
  }
  return `${kept}…`
}

/** A time in UTC. */
export function when(date: Date): string {
  return date.toISOString().replace('T', ' ')
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
] as const

/** A duration in its largest unit, rounded down: "3 min". */
export function span(ms: number): string {
  const [size, unit] = UNITS.find(([each]) => ms >= each) ?? [1, 'ms']
  return `${Math.max(0, Math.floor(ms / size))} ${unit}`
}

/** A number with thousands separators. */
export function count(value: number): string {
  return value.toLocaleString('en-US')
}

/** "1 message", "3 messages". */
export function plural(value: number, noun: string, nouns: string = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : nouns}`
}
