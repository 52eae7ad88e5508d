/** A URL as people may see it: where, but not as whom, because a user's name may be a token. */
export function shownUrl(url: unknown): string {
  const [, scheme, place = ''] = (typeof url === 'string' && PARTS.exec(url)) || []
  return scheme === undefined ? 'something that is not a URL' : `${scheme}${place}`
}

// The last @ counts: a password may contain others.
const PARTS = /^([a-z][a-z0-9+.-]{0,30}:\/{1,2})(?:.*@)?([^?#]*)/is

/** Why a server was not reached, in words that say what to look at. */
export function unreached(reason: string): string {
  return MEANINGS.find(([sign]) => sign.test(reason))?.[1](reason) ?? reason
}

const MEANINGS: readonly (readonly [sign: RegExp, meaning: (reason: string) => string])[] = [
  [/ECONNREFUSED|connection refused/i, (reason) => `${reason}; is the server running, and is the port right?`],
  [/ENOTFOUND|EAI_AGAIN/, (reason) => `${reason}; is the name of the host right?`],
  [/ETIMEDOUT|EHOSTUNREACH|ENETUNREACH/, (reason) => `${reason}; is the address right, and does a firewall allow it?`],
  [
    /wrong version number|packet length too long|not support 'tls'/i,
    () => 'the server does not speak TLS on this port',
  ],
  [/certificate|CERT_|self.signed/i, (reason) => `the certificate of the server is not accepted: ${reason}`],
  [
    /did not answer|^timeout$/i,
    (reason) => `${reason}; is it this kind of server that listens there, with or without TLS?`,
  ],
]
