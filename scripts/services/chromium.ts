import { findPrograms } from './programs.ts'
import type { Installable } from './service.ts'

/** A browser for the tests of the console. They start it themselves. */
export const chromium: Installable = {
  title: 'Chromium',
  debianPackages: ['chromium'],
  find: () => {
    const programs = findPrograms(['chromium'], ['/usr/bin', '/snap/bin'])
    return programs && { from: programs.chromium }
  },
}
