// Webhooks, both ways: what other services send, and what is sent to them.

export type { Webhook, WebhookArrival, WebhookRefusal, WebhookRequest } from '../../contracts/index.ts'
export * from './incoming/index.ts'
export { type BodyFormat, type WebhooksOptions, webhooks } from './outgoing/index.ts'
