/** Says why hapax does not run on this version of Node.js; undefined: it does. */
export function unsupportedNode(version: string = process.versions.node): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  // Node.js 23 ended before it had the parts of node:sqlite that 22.18 has.
  if (major >= 24 || (major === 22 && minor >= 18)) return undefined
  return `hapax needs Node.js 22.18 or later, except 23; this is Node.js ${version}`
}
