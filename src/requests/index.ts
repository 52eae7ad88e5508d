// HTTP requests that take effect once. What does not depend on the store is `Requests`; a `Way` runs them on a kind of store.

export type { Accepted, Keyed } from './accept.ts'
export { asResponse, type Captured, capture, responseOf } from './capture.ts'
export { type Answer, again, Requests, type Way } from './core.ts'
export { REQUEST_TYPE, rebuilt } from './identity.ts'
export { LeasedHttp } from './leased.ts'
export { keyless, OneHandler, refuseHandle, tooLarge } from './one-handler.ts'
export { consumerOf, type HttpSettings, httpSettings, isScope } from './options.ts'
export * from './problems.ts'
export { Scopes } from './scopes.ts'
