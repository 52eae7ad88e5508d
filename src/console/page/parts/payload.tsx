import { useSignal } from '@preact/signals'
import type { ComponentChildren, RefObject } from 'preact'
import { useMemo, useRef } from 'preact/hooks'
import type { PayloadView } from '../../api.ts'
import { asProblem, get, Problem } from '../state/api.ts'
import { size } from '../state/format.ts'
import { type Fold, foldsOf, indented } from '../state/indented.ts'
import { type Token, tokens } from '../state/tokens.ts'
import { ProblemBox } from './frame.tsx'
import { Copy } from './text.tsx'

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
      <Data payload={shown} />
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

/** More would make the page slow; the rest is shown without colours, and cannot be folded. */
const [MOST_COLOURED, MOST_TOKENS, MOST_LINES] = [100_000, 5_000, 2_000]

/** The text of a payload: indented where it is JSON, or as it is stored. What is copied is the stored text. */
function Data({ payload: { text, encoding, contentType, whole } }: { readonly payload: PayloadView }) {
  const stored = useSignal(false)
  const pretty = useMemo(
    () => (encoding === 'hex' ? undefined : indented({ text, contentType, whole })),
    [text, encoding, contentType, whole],
  )
  const element = useRef<HTMLDivElement>(null)
  const shown = stored.value ? undefined : pretty
  return (
    <>
      <div class="payload-tools">
        {pretty === undefined ? null : (
          <Switch on={stored.value} flip={() => (stored.value = !stored.peek())}>
            As stored
          </Switch>
        )}
        {shown === undefined || !/\n {2}.*[{[]\n/.test(shown) ? null : <FoldAll key={shown} element={element} />}
        {whole ? <Copy text={text} what="the payload" /> : null}
      </div>
      {shown === undefined ? <Plain text={text} encoding={encoding} /> : <Folded text={shown} element={element} />}
    </>
  )
}

function Switch({ on, flip, children }: { on: boolean; flip: () => void; children: ComponentChildren }) {
  return (
    <button type="button" class="quiet" aria-pressed={on} onClick={flip}>
      {children}
    </button>
  )
}

/** Folds all but the outermost object. */
function FoldAll({ element }: { readonly element: RefObject<HTMLDivElement | null> }) {
  const folded = useSignal(false)
  const flip = (): void => {
    folded.value = !folded.peek()
    for (const each of element.current?.querySelectorAll('details details') ?? []) {
      each.toggleAttribute('open', !folded.peek())
    }
  }
  return (
    <Switch on={folded.value} flip={flip}>
      Fold all
    </Switch>
  )
}

/** Made once for each text, not whenever the page has asked again. */
function Plain({ text, encoding }: Pick<PayloadView, 'text' | 'encoding'>) {
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

/** Indented JSON whose objects and lists can be folded. What is folded stays so when the page asks again. */
function Folded({ text, element }: { readonly text: string; readonly element: RefObject<HTMLDivElement | null> }) {
  const content = useMemo(() => {
    const lines = text.split('\n')
    const [head, rest] = [lines.slice(0, MOST_LINES).join('\n'), lines.slice(MOST_LINES).join('\n')]
    const budget = { left: MOST_TOKENS }
    return [...foldsOf(head).map((each) => folding(each, budget)), rest]
  }, [text])
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by the keyboard
    <div class="data" ref={element} tabIndex={0}>
      {content}
    </div>
  )
}

function folding(fold: Fold, budget: { left: number }): ComponentChildren {
  if (typeof fold === 'string') return <div>{line(fold, budget)}</div>
  const { first, inner, last } = fold
  return (
    <details open>
      <summary>{line(first, budget)}</summary>
      {inner.map((each) => folding(each, budget))}
      <div>{last}</div>
    </details>
  )
}

function line(text: string, budget: { left: number }): ComponentChildren[] {
  const parts = tokens(text, budget.left)
  budget.left = Math.max(0, budget.left - parts.length)
  return parts.map(token)
}

/** Colours by what a token looks like. Nothing is changed: text that is no JSON stays as it is. */
function coloured(text: string): ComponentChildren[] {
  const head = tokens(text.slice(0, MOST_COLOURED), MOST_TOKENS)
  return [...head.map(token), text.slice(MOST_COLOURED)]
}

function token({ kind, text }: Token): ComponentChildren {
  return kind === 'other' ? text : <span class={`tok-${kind}`}>{text}</span>
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
