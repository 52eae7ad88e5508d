import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** How long a token waits to be exchanged. */
const TOKEN_MS = 10 * 60_000
/** How long a browser stays signed in. */
const SESSION_MS = 12 * 3_600_000

/** One-time tokens, and the sessions that they were exchanged for. Only hashes are kept. */
export class Sessions {
  readonly #now: () => number
  readonly #tokens = new Map<string, number>()
  readonly #sessions = new Map<string, number>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** A new token. */
  token(): string {
    const token = randomBytes(32).toString('base64url')
    this.#tokens.set(hashed(token), this.#now() + TOKEN_MS)
    return token
  }

  /** The cookie of a new session; undefined: this token is none, was used before, or is too old. */
  exchanged(token: string, url: URL): string | undefined {
    const hash = hashed(token)
    const until = this.#tokens.get(hash)
    this.#tokens.delete(hash)
    if (until === undefined || until <= this.#now()) return undefined
    const session = randomBytes(32).toString('base64url')
    this.#sessions.set(hashed(session), this.#now() + SESSION_MS)
    const secure = url.protocol === 'https:' ? '; Secure' : ''
    return `${cookieName(url)}=${session}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${SESSION_MS / 1_000}${secure}`
  }

  /** Whether a request has the cookie of a session. */
  has(request: Request): boolean {
    const name = `${cookieName(new URL(request.url))}=`
    const cookies = (request.headers.get('cookie') ?? '').split(';').map((each) => each.trim())
    return cookies.some((each) => each.startsWith(name) && this.#isLive(each.slice(name.length)))
  }

  #isLive(session: string): boolean {
    const hash = hashed(session)
    const until = this.#sessions.get(hash)
    if (until === undefined) return false
    if (until > this.#now()) return true
    this.#sessions.delete(hash)
    return false
  }
}

/** Cookies do not know ports: two consoles on one machine need two names. */
function cookieName({ protocol, port }: URL): string {
  return protocol === 'https:' ? '__Host-hapax-console' : `hapax-console-${port || '80'}`
}

export function hashed(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

/** Compares secrets in a time that says nothing about them. */
export function safelyEqual(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(hashed(a)), Buffer.from(hashed(b)))
}
