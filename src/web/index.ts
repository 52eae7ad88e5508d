// What requests and responses have in common wherever they are handled: pure functions on the types of the Fetch standard.

export { readBody } from './body.ts'
export { type Problem, problemResponse, retryAfter } from './problem.ts'
export { webhookSecret } from './webhook-secret.ts'
