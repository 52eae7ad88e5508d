import fc from 'fast-check'
import { HapaxError, isHapaxError, NotDone, Permanent, RetryAfter } from 'hapax'
import { describe, expect, it } from 'vitest'
import { asError, errorHash, recordError as recordedError, describe as shown } from '../../src/base/errors.ts'
import { redact } from '../../src/base/redact.ts'
import { anyCharacter } from '../support/any-text.ts'

const recordError = (thrown: unknown) => recordedError(thrown, (text) => text)
const CANARY = 'h4nter2-canary'
/** As long as tokens are, and of letters and digits alone. */
const LONG = 'Qz7Rw2Xk9Lm4Tn8Vb3Jc6Hd1Gf5Ps0Yu'
const HEX = '0123456789abcdef0123456789abcdef'

const LEAKS = [
  `connect to postgres://app:${CANARY}@db.internal:5432/shop failed`,
  `connect to postgres://app:p@ss/${CANARY}@db.internal/shop failed`,
  `amqp://:${CANARY}@rabbit, redis://default:${CANARY}@cache:6379/0`,
  `https://${CANARY}@github.com/owner/name.git`,
  `url="mysql://root:${CANARY}@localhost/x"`,
  `password=${CANARY}`,
  `PASSWORD = ${CANARY}; host=db`,
  `password='${CANARY} with spaces' user=app`,
  `{"password":"${CANARY}","user":"app"}`,
  `{\\"password\\":\\"${CANARY}\\"}`,
  `{\\"password\\":\\"with spaces ${CANARY}\\"}`,
  `{"password":"a quote \\" and ${CANARY}","user":"app"}`,
  `{'password': 'a quote \\' and ${CANARY}'}`,
  `{"authorization":"Digest username=\\"app\\", response=\\"${CANARY}\\""}`,
  `"accessToken" => "${CANARY}"`,
  `apiKey := ${CANARY}`,
  `DB_PASSWORD=${CANARY}`,
  `AWS_SECRET_ACCESS_KEY=${CANARY}`,
  `client_secret=${CANARY}&grant_type=x`,
  `"accessToken": "${CANARY}"`,
  `x-api-key: ${CANARY}`,
  `api_key=${CANARY}`,
  `Authorization: Bearer ${CANARY}`,
  `authorization: Basic ${CANARY}`,
  `"Authorization":"Bearer ${CANARY}"`,
  `mysql --password ${CANARY} -h db`,
  `--api-key '${CANARY}' --verbose`,
  `passphrase "${CANARY}" is wrong`,
  `password is ${CANARY}`,
  `the password ${CANARY} was refused`,
  `alter user app identified by '${CANARY}'`,
  `invalid parameters: ["password", "${CANARY}"]`,
  `otp=${CANARY}`,
  `{"pin":"${CANARY}"}`,
  `user_pin: ${CANARY}`,
  `verification code: ${CANARY}`,
  `mfa_code=${CANARY}`,
  `cvv=${CANARY}`,
  `{"password":["${CANARY}"]}`,
  `{"tokens":["a","${CANARY}"]}`,
  `{"password":{"value":"${CANARY}"}}`,
  `access_token[]=${CANARY}`,
  `password%3D${CANARY}`,
  `secret -> ${CANARY}`,
  `<password>${CANARY}</password>`,
  `<wsse:Password Type="text">${CANARY}</wsse:Password>`,
  `x-auth: ${CANARY}`,
  `{"auths":{"registry":{"auth":"${CANARY}"}}}`,
  `pass phrase: ${CANARY}`,
  `passwort=${CANARY}`,
  `api key: ${CANARY}`,
  `Password for ada: ${CANARY}`,
  `password for user ada = ${CANARY}`,
  `access code: ${CANARY}`,
  `recovery_code=${CANARY}`,
  `psk=${CANARY}`,
  `client_secret%22%3A%22${CANARY}%22`,
]

/** Of these the whole token has to go, whatever it is called. */
const TOKENS: readonly (readonly [text: string, token: string])[] = [
  [`the provider answered 401 to Bearer ${LONG}`, LONG],
  [`bearer ${CANARY} is not known`, CANARY],
  [`sent Basic dXNlcjpodW50ZXI= and failed`, 'dXNlcjpodW50ZXI'],
  [`Authorization: Digest username="app", realm="x", response="${HEX}"`, HEX],
  [`{ authorization: 'AWS4-HMAC-SHA256 Credential=x, Signature=${HEX}' }`, HEX],
  [`Proxy-Authorization: Negotiate ${LONG}`, LONG],
  [`got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.${LONG}`, LONG],
  [`Cookie: theme=dark; sid=${LONG}`, LONG],
  [`set-cookie: [ 'sid=${LONG}; Path=/; HttpOnly' ]`, LONG],
  [`{"cookie":"a=b; connect.sid=${LONG}"}`, LONG],
  [`JSESSIONID=${LONG}`, LONG],
  [`AccountName=x;AccountKey=${LONG}==;EndpointSuffix=core`, LONG],
  [`Endpoint=sb://x/;SharedAccessKeyName=y;SharedAccessKey=${LONG}=`, LONG],
  [`https://x.blob.core.windows.net/c?sv=1&sig=${LONG}%3D&se=2`, LONG],
  [`https://s3.amazonaws.com/b/k?X-Amz-Signature=${HEX}&X-Amz-Expires=9`, HEX],
  [`https://maps.example.com/?key=${LONG}`, LONG],
  [`curl -u app:${CANARY} https://x`, CANARY],
  [`PGPASS: ${CANARY}`, CANARY],
  [`mongodb+srv://app:${CANARY}@cluster.example.com/db`, CANARY],
  [`https://hooks.slack.com/services/T0/B0/${LONG}`, LONG],
  ['no credentials for AKIAIOSFODNN7EXAMPLE', 'IOSFODNN7EXAMPLE'],
  [`key AIza${LONG}abc is disabled`, LONG],
  [`ya29.${LONG}`, LONG],
  [`ghp_${LONG}abcd`, LONG],
  [`github_pat_${LONG}_${LONG}`, LONG],
  [`glpat-${LONG}`, LONG],
  [`xoxb-1234-${LONG}`, LONG],
  [`No such key: sk_live_${LONG}`, LONG],
  [`whsec_${LONG}`, LONG],
  [`SG.${LONG}.${LONG}`, LONG],
  [`npm_${LONG}abcd`, LONG],
  [`sk-ant-api03-${LONG}`, LONG],
  [`hvs.${LONG}`, LONG],
  [`x-----BEGIN RSA PRIVATE KEY-----\n${LONG}\n${LONG}\n-----END RSA PRIVATE KEY-----y`, LONG],
  [`"-----BEGIN PRIVATE KEY-----\\n${LONG}\\n-----END PRIVATE KEY-----\\n"`, LONG],
  [`-----BEGIN EC PRIVATE KEY-----\n${LONG}\n${LONG}`, LONG],
  [`-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n${LONG}\n-----END PGP PRIVATE KEY BLOCK-----`, LONG],
]

describe('redact', () => {
  it.for(LEAKS)('removes the credential from %s', (text) => {
    expect(redact(text)).not.toContain(CANARY)
  })

  it.for(TOKENS)('K21: removes the token from %s', ([text, token]) => {
    for (const each of [
      text,
      `${text}\nnext line`,
      JSON.stringify({ text }),
      JSON.stringify({ text: JSON.stringify({ text }) }),
    ]) {
      const clean = redact(each)
      expect(clean).not.toContain(token)
      for (let at = 0; at + 12 <= token.length; at += 4) expect(clean).not.toContain(token.slice(at, at + 12))
    }
  })

  it('K21: half of a credential is none either, where a long text is cut', () => {
    const room = (length: number) => `password=${'x'.repeat(length)} `
    for (const length of [3_900, 3_950, 3_970, 3_980, 3_990]) {
      const { message } = recordError(new Error(`${room(length)}postgres://app:${LONG}${LONG}@db/x and more`))
      expect(message).not.toMatch(/Qz7Rw/)
    }
  })

  it('keeps what is no credential', () => {
    const kept = [
      'Basic authentication required',
      'Bearer authentication is required',
      'Unexpected token undefined',
      'the key order-17 of billing is not held',
      'duplicate key: 7',
      'primary key (id)=(4711) is taken',
      'bypassed: 3, passed: 7',
      'Key (email)=(ada@example.com) already exists.',
      'the cookie jar is full',
      'at Object.<anonymous> (/srv/app/token/session.ts:12:34)',
      'sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
      '01890a5d-ac96-774b-bcce-b302099a8057',
      '-----BEGIN CERTIFICATE-----',
      'connect ECONNREFUSED 127.0.0.1:5432',
      'duplicate key value violates unique constraint "orders_pkey"',
      'https://example.com/orders/7?page=2#top',
      'mail to ada@example.com',
      'Unexpected token in JSON at position 0',
      'expected passwords to match',
      'password authentication failed for user "ada"',
      'the password is wrong, and a password must have 8 characters',
      'Unexpected token \'}\', "{}}" is not valid JSON',
      "the secret 'db' was not found",
      'pin the version: 3',
      'spinning: 5, shipping=3, mapping=4, opinion: 5',
      'token expired at 10:00',
      '<token/> is empty',
      '--no-password was given',
      "Access denied for user 'shop'@'127.0.0.1' (using password: YES)",
    ]
    for (const text of kept) expect(redact(text)).toBe(text)
    expect(redact(LEAKS[0] as string)).toBe('connect to postgres://***@db.internal:5432/shop failed')
  })

  it('is quick with long and hostile texts', () => {
    // The time of this process, not that of the clock: others may be busy. An expression that goes back and forth takes minutes.
    const start = process.cpuUsage()
    for (const part of [
      'a',
      'password',
      'token=',
      'a://',
      '://:',
      '"',
      'secret"\\',
      'x-',
      '-----BEGIN PRIVATE KEY-----',
      'eyJ',
      'eyJaaaaaaaaaaaa.',
      'cookie:',
      'basic a',
      'bearer ',
      'xoxb-',
      'password ',
      'password for ',
      'password for a ',
      'api key',
      'password is ',
      'password=[',
      'password={',
      '--password ',
      '--password-',
      '<password',
      '<password ',
      '<a',
      'pin',
      '%3D',
    ])
      redact(part.repeat(20_000))
    const { user, system } = process.cpuUsage(start)
    expect((user + system) / 1000).toBeLessThan(20_000)
  })
})

describe('recordError', () => {
  it('keeps names, codes and messages of the causes, and no credential', () => {
    for (const leak of LEAKS) {
      const cause = Object.assign(new TypeError(leak), { code: `E ${leak}` })
      const record = recordError(new Error(leak, { cause }))
      expect(JSON.stringify(record)).not.toContain(CANARY)
      expect(record).toMatchObject({ name: 'Error', cause: { name: 'TypeError' } })
    }
  })

  it('is bounded, whatever was thrown', () => {
    const circular = new Error('round')
    circular.cause = circular
    const all = [circular, new Error('x'.repeat(1e6)), 'text', undefined, null, 7, 7n, Symbol('s'), {}, [], () => {}]
    for (const thrown of [...all, Object.create(null), new AggregateError([new Error('a')])]) {
      expect(JSON.stringify(recordError(thrown)).length).toBeLessThan(20_000)
    }
    expect(recordError('text')).toMatchObject({ name: 'Error', message: 'a handler threw "text"' })
    expect(recordError('text').cause).toBeUndefined()
  })

  it('takes any message', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), (message) => {
        expect(JSON.parse(JSON.stringify(recordError(new Error(message)))).name).toBe('Error')
      }),
      { numRuns: 20 },
    )
  })
})

describe('HapaxError', () => {
  it('has a code, fields that cannot be changed, and a cause', () => {
    const cause = new Error('below')
    const error = new HapaxError('busy', 'wait', { cause, fields: { id: 'a' } })
    expect(error).toMatchObject({ name: 'HapaxError', code: 'busy', message: 'wait', cause, fields: { id: 'a' } })
    expect(Object.isFrozen(error.fields)).toBe(true)
    expect('cause' in new HapaxError('busy', 'wait')).toBe(false)
    expect([
      isHapaxError(error),
      isHapaxError(error, 'busy'),
      isHapaxError(error, 'conflict'),
      isHapaxError(cause),
    ]).toEqual([true, true, false, false])
  })

  it('is one of few: the others are for handlers to throw', () => {
    expect(new Permanent('no').name).toBe('Permanent')
    expect(new NotDone('no').name).toBe('NotDone')
    expect(new RetryAfter(5)).toMatchObject({ name: 'RetryAfter', delayMs: 5, message: 'try again in 5 ms' })
  })
})

describe('describe', () => {
  it('says in a few words on one line what a value is', () => {
    expect(
      [undefined, null, 7, 7n, true, [1, 2], {}, new Date(0), Buffer.from('ab'), 'a\nb', shown].map(shown),
    ).toEqual([
      'undefined',
      'null',
      '7',
      '7n',
      'true',
      'an array of 2',
      'an object',
      'an object (Date)',
      '2 bytes',
      '"a\\nb"',
      'function describe',
    ])
    expect(shown('x'.repeat(10_000)).length).toBe(80)
    expect(shown('postgres://ada:lovelace@db/shop')).toBe('"postgres://***@db/shop"')
    expect(asError('boom').message).toBe('a handler threw "boom"')
  })
})

describe('errorHash', () => {
  const hashes = (...messages: string[]): number =>
    new Set(messages.map((message) => errorHash({ name: 'Error', message }))).size

  it('is equal for errors that differ only in numbers, ids and quoted values', () => {
    expect(errorHash({ name: 'Error', message: 'x' })).toMatch(/^[0-9a-f]{16}$/)
    expect(hashes('no order 17', 'no order 4')).toBe(1)
    expect(hashes('no user "ada" here', 'no user "bob" here', "no user 'c' here")).toBe(1)
    expect(hashes('no 0190b6a4-7b1c-7cc2-8a53-5f6d1f2b3c4d', 'no 0190B6A4-7B1C-7CC2-8A53-000000000000', 'no 12')).toBe(
      1,
    )
    expect(hashes('at 0xdeadbeef', 'at 0x00000001', 'at 9f86d081884c7d65')).toBe(1)
    expect(hashes('took 12.5 ms', 'took 3.25 ms')).toBe(1)
  })

  it('differs by name, code and words', () => {
    expect(hashes('no order', 'no customer', 'no decade', 'no facade')).toBe(4)
    const message = 'x'
    const records = [
      { name: 'Error', message },
      { name: 'TypeError', message },
      { name: 'Error', code: '1', message },
    ]
    expect(new Set(records.map(errorHash)).size).toBe(3)
  })

  it('takes no time that grows with the square of the text', () => {
    const begun = performance.now()
    for (const part of ['"', "'", '`', 'a', 'f', '1', '0x', 'abcdef-']) {
      errorHash({ name: 'Error', message: part.repeat(20_000) })
    }
    expect(performance.now() - begun).toBeLessThan(20_000)
  })
})
