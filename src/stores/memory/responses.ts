// Responses to HTTP requests, each kept with the receipt of its request.

import type { KnownRequest, Receipt, ResponseRow, StoredResponse } from '../../contracts/index.ts'
import { isFinished } from './cleanup.ts'
import type { Data } from './data.ts'
import { effectsOf, forgetEffect } from './leases.ts'
import { type KeptResponse, receiptKey } from './rows.ts'

/** Writes a response. One that is there is replaced: a person had the request run again. */
export function addResponse(data: Data, { consumer, messageKey, id, response, keepMs }: ResponseRow): void {
  const { status, headers, body } = response
  const own: StoredResponse = { status, headers: structuredClone(headers), body: new Uint8Array(body) }
  const times = { createdAt: data.now(), expiresAt: data.clock.now() + keepMs }
  data.responses.set(receiptKey(consumer, { messageKey }), { consumer, messageKey, id, response: own, ...times })
}

/** A receipt with the response to its request. */
export function withResponse(data: Data, consumer: string, messageKey: string, receipt: Receipt): Receipt {
  const row = data.responses.get(receiptKey(consumer, { messageKey }))
  return { ...receipt, response: row && responseOf(row), expired: row !== undefined && isExpired(data, row) }
}

/** What is known of a request. */
export function readResponse(data: Data, consumer: string, messageKey: string): KnownRequest | undefined {
  const receipt = data.receipts.get(receiptKey(consumer, { messageKey }))
  const row = data.responses.get(receiptKey(consumer, { messageKey }))
  if (receipt === undefined || (row !== undefined && isExpired(data, row))) return undefined
  return { receipt, response: row && responseOf(row) }
}

/** Deletes expired responses, the oldest first. */
export function expireResponses(data: Data, limit: number): number {
  const old = data.responses
    .all()
    .filter((row) => isExpired(data, row) && isFinished(data, row))
    .sort((a, b) => a.expiresAt - b.expiresAt)
    .slice(0, limit)
  for (const row of old) remove(data, row)
  return old.length
}

/** Deletes one expired response. */
export function forgetResponse(data: Data, consumer: string, messageKey: string): boolean {
  const row = data.responses.get(receiptKey(consumer, { messageKey }))
  if (row === undefined || !isExpired(data, row) || !isFinished(data, row)) return false
  remove(data, row)
  return true
}

function remove(data: Data, { consumer, messageKey }: KeptResponse): void {
  const key = receiptKey(consumer, { messageKey })
  data.responses.delete(key)
  data.receipts.delete(key)
  for (const effect of effectsOf(data, consumer, messageKey)) forgetEffect(data, effect)
}

function isExpired(data: Data, { expiresAt }: KeptResponse): boolean {
  return expiresAt <= data.clock.now()
}

/** A copy: who reads it may use its bytes as they like. */
function responseOf({ response: { status, headers, body } }: KeptResponse): StoredResponse {
  return { status, headers, body: new Uint8Array(body) }
}
