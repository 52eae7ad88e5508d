// Lambda functions that SQS feeds. Nothing of AWS is imported: the types are structural.

export { type SqsHandlerOptions, sqsHandler } from './handler.ts'
export type {
  LambdaContext,
  SqsAttribute,
  SqsBatchResponse,
  SqsEvent,
  SqsRecord,
} from './records.ts'
