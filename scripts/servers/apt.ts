import { spawnSync } from 'node:child_process'
import { NotToBeHad, type Obtained } from './obtained.ts'

/** A server that is installed here, if it is this version. */
export function installedByApt(debianPackage: string, version: string): Obtained {
  const { status, stdout } = spawnSync('dpkg-query', ['--show', debianPackage], { encoding: 'utf8' })
  if (status !== 0) throw new NotToBeHad(`the package ${debianPackage} is not installed`)
  const found = stdout.trim().split('\t')[1] ?? ''
  if (!isOf(found, version)) throw new NotToBeHad(`the installed ${debianPackage} is ${found}`)
  return { how: 'installed by apt', env: {} }
}

/** Whether a version of Debian, like `1:10.11.14-0+deb12u2`, is one of those that begin so. */
function isOf(debianVersion: string, version: string): boolean {
  const upstream = debianVersion.replace(/^\d+:/, '')
  return upstream.startsWith(version) && !/\d/.test(upstream.charAt(version.length))
}
