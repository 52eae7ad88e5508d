import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { PayloadView } from '../../api.ts'
import { get, Problem } from '../state/api.ts'
import { size } from '../state/format.ts'
import { ProblemBox } from './frame.tsx'

interface PayloadProps {
  readonly payload: PayloadView | null
  /** What answers with all of it: `failed/12?whole=1`. */
  readonly wholePath?: string | undefined
}

/** A payload as it is stored: text is not parsed, so that numbers stay exact. */
export function Payload({ payload, wholePath }: PayloadProps) {
  const whole = useSignal<PayloadView | undefined>(undefined)
  const problem = useSignal<Problem | undefined>(undefined)
  if (payload === null) return <p class="dim">Your role does not see payloads, or there is none.</p>
  const shown = whole.value ?? payload
  const load = async (): Promise<void> => {
    if (wholePath === undefined) return
    try {
      whole.value = (await get<{ payload: PayloadView }>(wholePath)).payload
      problem.value = undefined
    } catch (error) {
      problem.value = error instanceof Problem ? error : undefined
    }
  }
  return (
    <div class="payload">
      <p class="dim">
        {size(shown.bytes)} · {shown.contentType ?? 'no content type'}
        {shown.encoding === 'hex' ? ' · not text, shown as hex' : ''}
        {shown.redacted ? <strong> · parts are hidden from your role</strong> : null}
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard */}
      <pre class="data" tabIndex={0}>
        {shown.encoding === 'hex' ? hexLines(shown.text) : coloured(shown.text)}
      </pre>
      {shown.whole || wholePath === undefined ? null : (
        <button type="button" onClick={load}>
          Load all {size(shown.bytes)}
        </button>
      )}
      {problem.value === undefined ? null : <ProblemBox problem={problem.value} />}
      {shown.headers.length === 0 ? null : (
        <dl class="facts headers">
          {shown.headers.map(({ name, value }) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <code>{value}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  )
}

const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|\b(true|false|null)\b/g
/** More would make the page slow; the rest is shown without colours. */
const MOST_COLOURED = 100_000

/** Colours by what a token looks like. Nothing is parsed and nothing is changed: text that is no JSON stays as it is. */
function coloured(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = []
  const head = text.slice(0, MOST_COLOURED)
  let end = 0
  for (const found of head.matchAll(TOKENS)) {
    const [all, quoted, colon, number] = found
    if (found.index > end) parts.push(head.slice(end, found.index))
    const kind =
      quoted === undefined ? (number === undefined ? 'tok-word' : 'tok-num') : colon ? 'tok-name' : 'tok-text'
    parts.push(<span class={kind}>{quoted ?? all}</span>)
    if (quoted !== undefined && colon) parts.push(colon)
    end = found.index + all.length
  }
  parts.push(text.slice(end))
  return parts
}

function hexLines(hex: string): string {
  const lines: string[] = []
  for (let start = 0; start < hex.length; start += 32) {
    const bytes = hex.slice(start, start + 32).match(/../g) ?? []
    const plain = bytes.map((byte) => printable(Number.parseInt(byte, 16))).join('')
    lines.push(`${(start / 2).toString(16).padStart(6, '0')}  ${bytes.join(' ').padEnd(47)}  ${plain}`)
  }
  return lines.join('\n')
}

function printable(byte: number): string {
  return byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·'
}
