import { globSync } from 'node:fs'
import type { Installable } from './service.ts'

/** The clock of a server, which a test can set while it runs. */
export const faketime: Installable = {
  title: 'libfaketime',
  debianPackages: ['libfaketime'],
  find: () => {
    const [from] = globSync(['/usr/lib/*/faketime/libfaketimeMT.so.1', '/usr/lib*/faketime/libfaketimeMT.so.1'])
    return from === undefined ? undefined : { from }
  },
}
