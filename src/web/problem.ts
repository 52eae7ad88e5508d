/** What went wrong with a request, for whoever sent it: the fields of RFC 9457, and a code for programs. */
export interface Problem {
  readonly status: number
  /** One word or two, with hyphens: what a program compares. */
  readonly code: string
  readonly title: string
  /** What to do about it. Nothing internal: it goes to strangers. */
  readonly detail: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A problem as a response: `application/problem+json`. */
export function problemResponse({ status, code, title, detail, headers }: Problem): Response {
  const body = Buffer.from(JSON.stringify({ type: 'about:blank', title, status, detail, code }))
  const own = {
    'content-type': 'application/problem+json',
    'content-length': String(body.byteLength),
    'cache-control': 'no-store',
  }
  return new Response(body, { status, headers: { ...own, ...headers } })
}

/** A header that says when to try again: whole seconds, at least one. */
export function retryAfter(ms: number): { readonly 'retry-after': string } {
  return { 'retry-after': String(Math.max(1, Math.ceil(ms / 1_000))) }
}
