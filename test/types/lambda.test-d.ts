import type { SQSBatchResponse, SQSEvent, SQSHandler } from 'aws-lambda'
import type { Consumer, Leased } from 'hapax'
import { sqsHandler } from 'hapax/lambda'
import { expectTypeOf } from 'vitest'

declare const billing: Consumer<unknown>
declare const sms: Leased<unknown>
declare const event: SQSEvent

// What Lambda calls, and what it expects in return, are the types of AWS.
export const handler: SQSHandler = sqsHandler(billing, { type: { header: 'kind' }, envelope: 'sns' })
expectTypeOf(sqsHandler(sms)(event, { getRemainingTimeInMillis: () => 1 })).resolves.toExtend<SQSBatchResponse>()
// @ts-expect-error: there is no such envelope
sqsHandler(billing, { envelope: 'kinesis' })
