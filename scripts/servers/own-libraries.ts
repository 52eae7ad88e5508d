import { execFile } from 'node:child_process'
import { closeSync, globSync, lstatSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const MAGIC = '\x7fELF'

/** Where packages have programs, also those that other programs start. */
const programs = ['usr/{bin,sbin,libexec}/**', 'usr/lib/{erlang,postgresql}/**', 'usr/lib/x86_64-linux-gnu/mysql/**']

/** Makes the programs of unpacked packages use the loader and the libraries beside them, and not those of this system. */
export async function pointAtOwnLibraries(tree: string): Promise<void> {
  const libraries = join(tree, 'usr', 'lib', 'x86_64-linux-gnu')
  const loader = join(libraries, 'ld-linux-x86-64.so.2')
  const path = [libraries, join(libraries, 'private'), join(tree, 'usr', 'lib')].join(':')
  for (const file of globSync(programs, { cwd: tree }).map((each) => join(tree, each))) {
    if (isProgram(file) && (await hasLoader(file))) {
      await run('patchelf', ['--set-interpreter', loader, '--force-rpath', '--set-rpath', path, file])
    }
  }
}

function isProgram(file: string): boolean {
  const stat = lstatSync(file)
  return stat.isFile() && (stat.mode & 0o100) !== 0 && beginningOf(file) === MAGIC
}

function beginningOf(file: string): string {
  const bytes = Buffer.alloc(4)
  const descriptor = openSync(file, 'r')
  try {
    readSync(descriptor, bytes, 0, 4, 0)
    return bytes.toString('latin1')
  } finally {
    closeSync(descriptor)
  }
}

/** Libraries and static programs have none. */
async function hasLoader(file: string): Promise<boolean> {
  return run('patchelf', ['--print-interpreter', file]).then(
    () => true,
    () => false,
  )
}
