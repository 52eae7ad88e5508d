import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/** Whether this is root on Debian or one of its children. */
export function canInstall(): boolean {
  return process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')
}

/** Installs packages without starting their system services; returns what apt said when it failed. */
export function install(packages: string[]): string | undefined {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', script, 'sh', ...packages], {
    encoding: 'utf8',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  })
  return status === 0 ? undefined : (stderr || stdout).trim().split('\n').slice(-5).join('\n')
}

// The shell's trap removes the policy even if this process is killed in the meantime.
const script = `
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' > $policy && chmod +x $policy
fi
install="apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=300"
$install "$@" || { apt-get update && $install "$@"; }
`
