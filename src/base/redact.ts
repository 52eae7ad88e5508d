import { callback } from './options.ts'

/** Removes from a text what must not be stored or logged. */
export type Redact = (text: string) => string

/** The application's own rules, made safe: if they throw or return no text, the whole text is withheld. */
export function redactOption(given: Redact | undefined): Redact {
  callback('redact', given)
  if (given === undefined) return (text) => text
  return (text) => {
    try {
      const result: unknown = given(text)
      if (typeof result === 'string') return result
      if (result instanceof Promise) result.catch(() => {})
    } catch {
      // See below.
    }
    return WITHHELD
  }
}

const WITHHELD = '(withheld: redact gave no text)'

// Every repetition has a bound: without one, a hostile text would take time that grows with its square.

const PASSWORD = 'passwor[dt]|passwd|pwd|pass[-_ ]?phrase|passcode'
/** Names too short to be matched inside longer names. */
const CODE =
  'pw|pin|psk|(?:cvv|cvc)2?|ssn|(?:t?otp|mfa|2fa)(?:[-_ ]?code)?|(?:verification|security|access|auth|recovery|backup)[-_ ]?code'
const TOKEN = 'secret|token|credential|jwt|jsessionid|phpsessid|connect\\.sid|session[-_]?id|signature|otp[-_]?code'
const KEY = '(?:api|access|account|private|signing|encryption|master|service|storage|webhook|session)[-_ ]?key'
/** Between a name and its value, also where the quotes of JSON are escaped. */
const IS = `((?:\\[[^\\]]{0,20}\\])?\\\\{0,4}["']?(?:%22)?\\s{0,9}(?:=>|:=|->|\\u2192|%3[dDaA]|[=:])\\s{0,9})`
/** A value in quotes, which may contain escaped ones, or whose own quotes are escaped. */
const QUOTED = `"[^"\\\\]*(?:\\\\[^][^"\\\\]*){0,5000}"|'[^'\\\\]*(?:\\\\[^][^'\\\\]*){0,5000}'|\\\\{1,4}"[^"]*"`
/** What MySQL says about a login: whether there was a password. */
const USED = 'password: (?:YES|NO)\\)'
/** A list or an object, up to its first closing bracket. */
const NESTED = '\\[[^\\]]{0,5000}\\]?|\\{[^}]{0,5000}\\}?'
/** `DB_PASSWORD=…`, `"accessToken":"…"`, `?sig=…`. */
const NAMED = new RegExp(
  `(?!${USED})((?:\\b|_)[\\w-]{0,40}?(?:${PASSWORD}|${TOKEN}|${KEY})[\\w-]{0,40}|(?:\\b|_)(?:${CODE})|\\b(?:${PASSWORD})\\s{1,9}for\\s{1,9}[^\\s:=]{1,60}(?:\\s{1,9}[^\\s:=]{1,60})?|["']auth|\\b[\\w-]{0,40}?(?:pass|[-_]auth)|[?&](?:sig|key|auth))` +
    `${IS}((?:bearer|basic|digest|token)\\s{1,9})?(${QUOTED}|${NESTED}|[^\\s,;&]+)`,
  'gi',
)
/** `--password …`, as options of a command. */
const OPTIONS = new RegExp(
  `((?<![\\w-])--?(?!-?no-)[\\w-]{0,40}?(?:${PASSWORD}|${TOKEN}|${KEY}|pass)[\\w-]{0,20}\\s{1,9})(${QUOTED}|[^\\s-]\\S*)`,
  'gi',
)
/** `password "…"`, `password is …`, `'password', '…'`: an unquoted value needs a digit, because most words are just prose. */
const SPOKEN = new RegExp(
  `\\b(?!${USED})((?:${PASSWORD}|identified by)["']?(?:\\s{0,9},|\\s{1,9}(?:is|was|to|by))?\\s{1,9})` +
    `(${QUOTED}|(?=[^\\s\\d]{0,40}\\d)[^\\s,;&]{6,})`,
  'gi',
)
/** `<password>…</password>`. */
const ELEMENTS = new RegExp(
  `(<[\\w:.-]{0,40}?(?:${PASSWORD}|${TOKEN}|${KEY})[\\w.-]{0,40}(?:\\s[^<>]{0,200})?>)[^<]{1,5000}`,
  'gi',
)
/** Headers that are secret to the end of their line, unless quotes end them before. */
const HEADERS = new RegExp(
  `\\b((?:proxy-)?authorization|(?:set-)?cookie2?|x-amz-security-token)${IS}(${QUOTED}|[^\\r\\n]+)`,
  'gi',
)
/** `scheme://user:password@host`, whatever the password contains, and `scheme://token@host`. */
const URLS = /\b([a-z][a-z0-9+.-]{0,30}:\/\/)(?:[^\s/@:]{0,200}:[^\s"'<>]{0,2000}|[^\s/?#"'<>]{0,2000})@/gi
/** As in a header, but somewhere in a sentence. A word of letters alone is one of the sentence. */
const BEARER = /\b(bearer)\s{1,9}(?:[\w.~+/=-]{16,4000}|(?=[^\s\d]{0,40}\d)[\w.~+/=-]{6,4000})/gi
const BASIC = /\b([Bb]asic|BASIC)\s{1,9}(?=[a-z]{0,40}[\dA-Z+/=])[A-Za-z0-9+/]{8,4000}={0,2}/g
const CURL = /(\s(?:-u|--user|--proxy-user)[\s=]['"]?)[^\s:'"]{1,200}:[^\s'"]{1,2000}/g
/** With an end, or cut off before it. */
const PEM =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----[^-]{0,20000}(?:-----END [A-Z0-9 ]{0,60}-----|-{0,5}$|-{1,4})/g
const JWT = /\bey[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{4,4000}(?:\.[A-Za-z0-9_-]{0,4000}){0,3}/g

/** What services make so that it can be recognised. */
const VENDORS = new RegExp(
  [
    'A(?:KIA|SIA|BIA|CCA|ROA|IDA)[A-Z0-9]{16}', // AWS
    'AIza[\\w-]{30,60}', // Google
    'ya29\\.[\\w.-]{10,2000}',
    'GOCSPX-[\\w-]{20,60}',
    '[\\w~.-]{3}8Q~[\\w~.-]{31,40}', // Microsoft Entra
    'gh[pousr]_[A-Za-z0-9]{20,300}', // GitHub
    'github_pat_\\w{20,300}',
    'gl(?:pat|dt|rt|ptt|oas)-[\\w.-]{15,300}', // GitLab
    'xox[a-z]-[\\w-]{8,300}', // Slack
    'xapp-[\\w-]{8,300}',
    '[rsp]k_(?:live|test)_\\w{8,300}', // Stripe
    'whsec_[\\w+/=]{8,300}',
    'SK[0-9a-f]{32}', // Twilio
    'SG\\.[\\w-]{10,100}\\.[\\w-]{10,100}', // SendGrid
    'key-[0-9a-f]{32}', // Mailgun
    'npm_[A-Za-z0-9]{30,60}',
    'pypi-[\\w-]{30,300}',
    'sk-[A-Za-z0-9_-]{20,300}', // OpenAI, Anthropic
    'hf_[A-Za-z0-9]{30,60}',
    'hv[sb]\\.[\\w-]{20,300}', // Vault
    'do[opr]_v1_[0-9a-f]{40,100}', // DigitalOcean
    'shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}', // Shopify
    'AGE-SECRET-KEY-1[A-Z0-9]{50,60}',
    '\\d{8,10}:AA[\\w-]{30,40}', // Telegram
  ]
    .map((pattern) => `\\b${pattern}`)
    .join('|'),
  'g',
)
const SLACK_HOOKS = /(hooks\.slack\.com\/(?:services|workflows)\/)[\w/-]{1,200}/g

/**
 * Removes credentials from a text: private keys, those in URLs and headers, values of what is called a password, a token or a key, and
 * tokens that can be recognised by how they begin. It cannot know every one: see the option `redact` of `createHapax`.
 */
export function redact(text: string): string {
  return text
    .replace(PEM, '-----BEGIN PRIVATE KEY-----***')
    .replace(URLS, '$1***@')
    .replace(SLACK_HOOKS, '$1***')
    .replace(HEADERS, '$1$2***')
    .replace(ELEMENTS, '$1***')
    .replace(NAMED, '$1$2***')
    .replace(OPTIONS, '$1***')
    .replace(SPOKEN, '$1***')
    .replace(BEARER, '$1 ***')
    .replace(BASIC, '$1 ***')
    .replace(CURL, '$1***')
    .replace(JWT, '***')
    .replace(VENDORS, '***')
}
