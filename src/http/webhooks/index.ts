export { type BodyFormat, type WebhooksOptions, webhooks } from './outgoing/index.ts'
