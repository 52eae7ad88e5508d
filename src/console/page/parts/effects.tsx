import type { ComponentChildren } from 'preact'
import type { EffectView } from '../../api.ts'
import { settle } from '../changes/settle.tsx'
import { query } from '../state/api.ts'
import { Do } from './buttons.tsx'
import { type Column, Table } from './table.tsx'
import { Code, Copy, Cut, ErrorLine, Link, State } from './text.tsx'
import { Time } from './time.tsx'

interface EffectsProps {
  readonly effects: readonly EffectView[]
  /** The failed row where they are settled. */
  readonly seq?: string | null
  /** Whether the message is shown, too. */
  readonly messages?: boolean
}

/** External calls, with what is known of them. */
export function Effects({ effects, seq, messages = false }: EffectsProps) {
  const columns: readonly Column<EffectView>[] = [
    { title: 'Effect', kind: 'lead', cell: (each) => <Code text={each.name} /> },
    {
      title: 'State',
      cell: (each) => (
        <>
          <State name={each.state} /> {each.resultLost ? <span class="warn">result lost</span> : null}
        </>
      ),
    },
    ...(messages ? ofMessage : []),
    { title: 'Attempts', align: 'right', cell: (each) => each.attempts },
    { title: 'Began', cell: (each) => <Time at={each.firstAt} /> },
    { title: 'Last', cell: (each) => <Time at={each.lastAt} /> },
    {
      title: 'Idempotency key',
      kind: 'below',
      titled: true,
      cell: ({ key }) =>
        key && (
          <span>
            <code>{key}</code> <Copy text={key} what="the idempotency key" />
          </span>
        ),
    },
    { title: 'Error', kind: 'below', cell: ({ error }) => error && <ErrorLine error={error} /> },
    {
      title: 'Actions',
      kind: 'actions',
      cell: (each) => {
        const row = each.seq ?? seq ?? null
        if (each.state !== 'unknown' && each.state !== 'started' && !each.resultLost) return null
        // A list does not know the failed row of a message; its life does.
        if (row === null) return <MessageLink effect={each}>Settle there</MessageLink>
        return (
          <Do needs="admin" label={`Settle ${each.name}`} action={() => settle(row, each)}>
            Settle …
          </Do>
        )
      },
    },
  ]
  return (
    <Table
      label="External calls"
      columns={columns}
      rows={effects}
      keyOf={(each) => `${each.scope} ${each.messageKey} ${each.name}`}
    />
  )
}

const ofMessage: readonly Column<EffectView>[] = [
  { title: 'Consumer', cell: (each) => <Cut text={each.scope} /> },
  {
    title: 'Message',
    cell: (each) => (
      <MessageLink effect={each}>
        <Code text={each.message?.id ?? each.messageKey} />
      </MessageLink>
    ),
  },
]

function MessageLink({ effect: { message }, children }: { effect: EffectView; children: ComponentChildren }) {
  if (message === null) return <>{children}</>
  return <Link to={`message${query({ id: message.id, source: message.source })}`}>{children}</Link>
}
