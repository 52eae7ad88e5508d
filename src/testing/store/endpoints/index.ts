import type { Case } from '../case.ts'
import { disabling } from './disabling.ts'
import { endpointNeighbours } from './neighbours.ts'
import { retrying } from './retrying.ts'
import { spreading } from './spreading.ts'

/** Outgoing webhooks. */
export const outgoingWebhooks: readonly Case[] = [...spreading, ...retrying, ...disabling, ...endpointNeighbours]
