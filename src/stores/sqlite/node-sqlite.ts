import { HapaxError, unsupportedNode } from '../../base/index.ts'

/** `node:sqlite`. It is not imported: on an old Node.js the import would fail before the reason can be given. */
export const nodeSqlite: typeof import('node:sqlite') = load()

function load(): typeof nodeSqlite {
  const objection = unsupportedNode()
  if (objection !== undefined) throw new HapaxError('unsupported-node', objection)
  return process.getBuiltinModule('node:sqlite')
}
