import { globSync } from 'node:fs'
import { findPrograms } from './programs.ts'
import type { Installable } from './service.ts'

const providers = ['/usr/lib/galera/libgalera_smm.so', '/usr/lib*/galera-4/libgalera_smm.so']

/** What makes a cluster of MariaDB servers. */
export const galera: Installable = {
  title: 'Galera',
  debianPackages: ['galera-4'],
  find: () => {
    const [from] = globSync(providers)
    return from === undefined ? undefined : { from }
  },
}

/** By which a node of Galera gets the data of another one. */
export const rsync: Installable = {
  title: 'rsync',
  debianPackages: ['rsync'],
  find: () => {
    const programs = findPrograms(['rsync'], [])
    return programs && { from: programs.rsync }
  },
}
