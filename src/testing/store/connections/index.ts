import { type Case, ofConnections } from '../case.ts'
import { leaks } from './leaks.ts'
import { levels } from './levels.ts'
import { lost } from './lost.ts'
import { nesting } from './nesting.ts'
import { shapes } from './shapes.ts'
import { together } from './together.ts'
import { unawaited } from './unawaited.ts'

/** What a connection has to do, beyond what other topics show. */
export const connections: readonly Case[] = ofConnections([
  ...unawaited,
  ...levels,
  ...lost,
  ...nesting,
  ...together,
  ...leaks,
  ...shapes,
])
