import { exact } from '../state/format.ts'

const NAMES: Readonly<Record<string, string>> = {
  origin: 'origin',
  scope: 'consumer or relay',
  consumer: 'consumer or relay',
  type: 'type',
  reason: 'reason',
  errorHash: 'error',
  since: 'failed since',
  until: 'failed before',
  relay: 'relay',
}

/** The conditions of a change to many rows, as facts. */
export function Where({ where }: { readonly where: Readonly<Record<string, string | undefined>> | object }) {
  const all = Object.entries(where).filter(([, value]) => typeof value === 'string' && value !== '')
  const origin = all.find(([name]) => name === 'origin')?.[1]
  // With a name, the origin only says which of the two it is.
  const given = all.some(([name]) => name === 'scope') ? all.filter(([name]) => name !== 'origin') : all
  const titleOf = (name: string): string =>
    name === 'scope' && origin !== undefined ? (origin === 'outbox' ? 'relay' : 'consumer') : (NAMES[name] ?? name)
  if (given.length === 0) return <p class="where">all failed messages</p>
  return (
    <dl class="facts where">
      {given.map(([name, value]) => (
        <div key={name}>
          <dt>{titleOf(name)}</dt>
          <dd>
            <code>{name === 'since' || name === 'until' ? exact(value) : value}</code>
          </dd>
        </div>
      ))}
    </dl>
  )
}
