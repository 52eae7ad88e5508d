import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { PayloadView } from '../../api.ts'
import { asProblem, get, Problem } from '../state/api.ts'
import { size } from '../state/format.ts'
import { tokens } from '../state/tokens.ts'
import { ProblemBox } from './frame.tsx'

interface PayloadProps {
  readonly payload: PayloadView | null
  /** What answers with all of it: `failed/12?whole=1`. */
  readonly wholePath?: string | undefined
}

const GONE = new Problem({ status: 404, code: 'not-found', detail: 'The payload is gone: the message has moved on.' })

/** A payload as it is stored: text is not parsed, so that numbers stay exact. */
export function Payload({ payload, wholePath }: PayloadProps) {
  const whole = useSignal<PayloadView | undefined>(undefined)
  const problem = useSignal<Problem | undefined>(undefined)
  if (payload === null) return <p class="dim">Your role does not see payloads, or there is none.</p>
  const shown = whole.value ?? payload
  const load = async (): Promise<void> => {
    if (wholePath === undefined) return
    try {
      const all = (await get<{ payload: PayloadView | null }>(wholePath)).payload
      whole.value = all ?? undefined
      problem.value = all === null ? GONE : undefined
    } catch (error) {
      problem.value = asProblem(error)
    }
  }
  return (
    <div class="payload">
      <p class="dim">
        {size(shown.bytes)} · {shown.contentType ?? 'no content type'}
        {shown.encoding === 'hex' ? ' · not text, shown as hex' : ''}
        {shown.redacted ? <strong> · parts are hidden from your role</strong> : null}
      </p>
      <Data text={shown.text} encoding={shown.encoding} />
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

/** More would make the page slow; the rest is shown without colours. */
const [MOST_COLOURED, MOST_TOKENS] = [100_000, 5_000]

/** Made once for each text, not whenever the page has asked again. */
function Data({ text, encoding }: Pick<PayloadView, 'text' | 'encoding'>) {
  return useMemo(
    () => (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard
      <pre class="data" tabIndex={0}>
        {encoding === 'hex' ? hexLines(text) : coloured(text)}
      </pre>
    ),
    [text, encoding],
  )
}

/** Colours by what a token looks like. Nothing is changed: text that is no JSON stays as it is. */
function coloured(text: string): ComponentChildren[] {
  const head = tokens(text.slice(0, MOST_COLOURED), MOST_TOKENS)
  const parts = head.map((token) =>
    token.kind === 'other' ? token.text : <span class={`tok-${token.kind}`}>{token.text}</span>,
  )
  return [...parts, text.slice(MOST_COLOURED)]
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
