import { accessSync, constants, globSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Finds programs on the PATH, or else in folders given as glob patterns, the newest version first; all of them or none. */
export function findPrograms<Name extends string>(
  names: Name[],
  elsewhere: string[],
): Record<Name, string> | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...elsewhere.flatMap(newestFirst)]
  const found = names.map((name) => [name, folders.map((folder) => join(folder, name)).find(isExecutable)])
  if (found.some(([, path]) => path === undefined)) return undefined
  return Object.fromEntries(found)
}

/** Which of these programs comes first on the PATH; of two in one folder, the one that is named first. */
export function firstProgram(names: readonly string[]): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isExecutable)
}

/** The paths that match, the newest version first. */
export function newestFirst(pattern: string): string[] {
  return globSync(pattern).sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
