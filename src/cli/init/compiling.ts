import { CliError } from '../io/errors.ts'
import type { Project } from '../project.ts'

/** Refuses a project whose compiler would not take the files, or would put its output elsewhere because of them. */
export function assertCompiles({ language, modules, compiler }: Project): void {
  if (language !== 'ts' || compiler === undefined) return
  const { module, moduleResolution, major, minor, verbatim, compilesRoot } = compiler
  const old = major < 5 || (major === 5 && minor < 8)
  if (moduleResolution === 'classic') {
    refuse(`moduleResolution classic does not find hapax`, [
      `in tsconfig.json: "moduleResolution": "${module === 'commonjs' ? 'node10' : 'bundler'}"`,
    ])
  }
  if (modules === 'cjs' && !verbatim && (/^node1\d$/.test(module) || (/^node/.test(module) && old))) {
    refuse(`with module ${module} of TypeScript ${major}.${minor}, CommonJS files cannot import hapax, an ES module`, [
      'in tsconfig.json: "module": "nodenext", with TypeScript 5.8 or later',
      'or "type": "module" in package.json',
    ])
  }
  if (compilesRoot) {
    refuse('allowJs would compile hapax.config.mjs, and put the output of all files one folder deeper', [
      'in tsconfig.json: "include": ["src"], or wherever your sources are',
    ])
  }
}

function refuse(why: string, hints: readonly string[]): never {
  throw new CliError('refused', `${why}; nothing was written`, hints)
}
