/** What every answer of the console has, whatever it is. */
const SAFETY: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=()',
  'cache-control': 'no-store',
}

/** The same response with these headers; what it says itself about caches stays. */
export function secured(response: Response): Response {
  for (const [name, value] of Object.entries(SAFETY)) {
    if (name !== 'cache-control' || !response.headers.has(name)) response.headers.set(name, value)
  }
  return response
}
