import type { Store } from 'hapax'
import { mysql } from 'hapax/mysql'
import { postgres } from 'hapax/postgres'
import { sqlite } from 'hapax/sqlite'
import type { Place, RigTx } from '../../support/databases.ts'

/** The store of a place as an application has it: with all connections of its own. */
export function openAsUsual({ store, url, schema }: Place): Store<RigTx> {
  if (store === 'postgres') return postgres({ url, schema }) as unknown as Store<RigTx>
  return (store === 'mysql' ? mysql({ url }) : sqlite({ path: url })) as unknown as Store<RigTx>
}
