// `hapax/http`: handlers of requests on the servers and frameworks of Node.js.

export { toExpress } from './express.ts'
export { type FastifyReplyLike, type FastifyRequestLike, type FastifyRoute, toFastify } from './fastify.ts'
export { type FetchHandler, type MountOptions, type NodeRequest, type NodeResponse, toNode } from './node.ts'
