import { describe, expect, it, test } from 'vitest'
import { encoderOption } from '../../src/brokers/kit/index.ts'
import type { EncodeFunction } from '../../src/contracts/index.ts'

const message = { id: 'a', source: '/shop', type: 'order.placed', data: Buffer.from('{}'), key: undefined }

/** Why a message is refused for which `encode` returns this. */
function refusal(made: unknown, properties: readonly string[] = ['messageId', 'appId']): string {
  const encode = (() => made) as unknown as EncodeFunction
  try {
    encoderOption({ encode }, properties).encode(message as never)
    return 'sent'
  } catch (error) {
    return String((error as Error).message)
  }
}

describe('what encode returns', () => {
  const body = '{}'

  it('is sent if it has a body, and headers and properties of texts', () => {
    expect(refusal({ body })).toBe('sent')
    expect(
      refusal({ body, contentType: 'a/b', headers: { a: 'b', c: undefined }, properties: { appId: '/shop' } }),
    ).toBe('sent')
  })

  test.for([
    [
      'a header that is a number',
      { headers: { fine: 'a', 'X-Count': 5 } },
      'the header X-Count that encode returns to be a well-formed text, got 5',
    ],
    ['a header with half a character', { headers: { 'X-Half': '\ud800' } }, 'the header X-Half that encode returns'],
    [
      'a property that is no text',
      { properties: { messageId: 7 } },
      'the property messageId that encode returns to be a well-formed text, got 7',
    ],
    [
      'a property that the broker does not have',
      { properties: { deliveryMode: '2' } },
      'the name of a property that encode returns to be one of messageId, appId, got "deliveryMode"',
    ],
    ['headers that are a list', { headers: [] }, 'the headers that encode returns to be an object of texts'],
    ['a content type that is no text', { contentType: 1 }, 'the contentType that encode returns to be a text, got 1'],
    [
      'another field',
      { header: { type: 'a' } },
      'what encode returns to be an object with body, contentType, headers and properties, got "header"',
    ],
  ] as const)('names what is wrong: %s', ([, made, named]) => {
    expect(refusal({ body, ...made })).toContain(`expected ${named}`)
  })
})
