import { signal } from '@preact/signals'
import type { PostedBody, ProblemView } from '../../api.ts'

/** Where the console is mounted, as the server wrote it into the page: ends with a slash. */
export const base: URL = new URL(
  document.querySelector<HTMLMetaElement>('meta[name="hapax-base"]')?.content || './',
  location.href,
)

/** How far the server's clock is ahead of the viewer's, in milliseconds. */
export const skewMs = signal(0)

/** Whether the application no longer lets this person in: then there is nothing here, it says. */
export const signedOut = signal(false)

/** The server refused, or could not be reached: `status` is 0 then. */
export class Problem extends Error {
  readonly status: number
  readonly code: string
  readonly advice: string | undefined
  /** What the server had answered before the database stopped answering. */
  readonly last: ProblemView['last']

  constructor({ status, code, detail, advice, last }: Omit<ProblemView, 'title'>) {
    super(detail)
    this.status = status
    this.code = code
    this.advice = advice
    this.last = last
  }

  /** The question itself was refused, and would be again. */
  get isRefusal(): boolean {
    return this.status !== 0 && this.status < 500
  }
}

/** What went wrong, as a problem: others are mistakes of this page. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  return new Problem({ status: 0, code: 'page', detail: error instanceof Error ? error.message : String(error) })
}

/** GET of `api/…`. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return await ask<T>(path, signal === undefined ? {} : { signal })
}

/** POST to `api/…`. */
export async function post<T = unknown>(path: string, body: PostedBody): Promise<T> {
  return await ask<T>(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  })
}

async function ask<T>(path: string, options: RequestInit): Promise<T> {
  const reply = await fetch(new URL(`api/${path}`, base), { ...options, credentials: 'same-origin' }).catch(unreachable)
  noteClock(reply)
  const text = await reply.text().catch(unreachable)
  signedOut.value = !reply.ok && (await isStranger(reply.status, path))
  if (reply.ok) return JSON.parse(text)
  throw problemOf(reply, text)
}

/** To strangers, a mounted console answers as if there were none: whether a row is missing or the person is unknown, the session says. */
async function isStranger(status: number, path: string): Promise<boolean> {
  if (status !== 404 || path === 'session') return false
  const reply = await fetch(new URL('api/session', base), { credentials: 'same-origin' }).catch(() => undefined)
  return reply?.status === 404
}

function unreachable(error: unknown): never {
  if (error instanceof DOMException && error.name === 'AbortError') throw error
  const late = error instanceof DOMException && error.name === 'TimeoutError'
  throw new Problem({
    status: 0,
    code: 'unreachable',
    detail: late ? 'The console’s server did not answer in time.' : 'The console’s server cannot be reached.',
    advice: 'Is it still running? This page tries again by itself.',
  })
}

function noteClock(reply: Response): void {
  const at = Date.parse(reply.headers.get('date') ?? '')
  // The header has seconds only; a smaller difference would be noise.
  const ahead = at - Date.now()
  if (Number.isFinite(ahead) && Math.abs(ahead - skewMs.peek()) > 2_000) skewMs.value = ahead
}

function problemOf(reply: Response, text: string): Problem {
  const said = parsed(text)
  const { code = `http-${reply.status}`, detail = `The server replied ${reply.status}.`, advice, last } = said
  const more = { ...(advice !== undefined && { advice }), ...(last !== undefined && { last }) }
  return new Problem({ status: reply.status, code, detail, ...more })
}

function parsed(text: string): Partial<ProblemView> {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    return {}
  }
}

/** A query string of what is given; empty texts are left out. */
export function query(values: Readonly<Record<string, string | number | undefined | null>>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== '')
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? '' : `?${text}`
}
