import { findPrograms } from './programs.ts'
import type { Installable } from './service.ts'

/** Makes the networks that nodes of clusters are in. */
export const iproute: Installable = {
  title: 'iproute2',
  debianPackages: ['iproute2'],
  find: () => {
    const programs = findPrograms(['ip'], ['/usr/sbin', '/sbin'])
    return programs && { from: programs.ip }
  },
}
