export {
  Attempt,
  type Attempted,
  type Engine,
  GRACE_MS,
  insist,
  type Plan,
  persist,
  type Running,
  type Scope,
  type UnitSettings,
  unit,
} from './attempt.ts'
export { Floor } from './floor.ts'
export { type Cause, causeOf, Publisher } from './publish.ts'
export { checkPublish, sentName } from './publish-options.ts'
