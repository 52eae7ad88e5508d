import type { FailedQueryView, GroupsView, GroupView } from '../../api.ts'
import { bulk } from '../changes/bulk.tsx'
import { Do } from '../parts/buttons.tsx'
import { type Filter, Filters } from '../parts/filters.tsx'
import { Empty, Frame } from '../parts/frame.tsx'
import { Link, State } from '../parts/text.tsx'
import { Time } from '../parts/time.tsx'
import { query } from '../state/api.ts'
import { count, plural } from '../state/format.ts'
import { usePoll } from '../state/poll.ts'
import { place } from '../state/router.ts'

const FIELDS = ['origin', 'scope', 'type', 'reason', 'errorHash', 'since', 'until'] as const

export const FAILED_FILTERS: readonly Filter[] = [
  {
    name: 'origin',
    title: 'Origin',
    kind: 'choice',
    of: [
      ['', 'all'],
      ['inbox', 'consumers'],
      ['outbox', 'relays'],
    ],
  },
  { name: 'scope', title: 'Consumer or relay', kind: 'text' },
  { name: 'type', title: 'Type', kind: 'text' },
  { name: 'reason', title: 'Reason', kind: 'text' },
  { name: 'since', title: 'Failed since', kind: 'time' },
  { name: 'until', title: 'Failed before', kind: 'time' },
]

/** The conditions in the address. */
export function whereOf(params: URLSearchParams): FailedQueryView {
  return Object.fromEntries(FIELDS.flatMap((name) => (params.get(name) ? [[name, params.get(name) ?? '']] : [])))
}

/** The groups of failed messages that match. */
export function failedPath(where: FailedQueryView): string {
  return `failed${query({ ...where })}`
}

/** The conditions that make a group. */
function groupWhere({ origin, scope, type, reason, errorHash }: GroupView): FailedQueryView {
  return { origin, scope, type, reason, errorHash }
}

/** Failed messages in groups: what failed alike, and since when. */
export function Failed() {
  const where = whereOf(place.value.query)
  const polled = usePoll<GroupsView>(`failed/groups${query({ ...where })}`)
  const filtered = Object.keys(where).length > 0
  return (
    <Frame
      title="Failed"
      lead="Messages that failed for good, grouped by what failed alike. They wait for a person."
      tools={<Tools where={where} some={(polled.data.value?.groups.length ?? 0) > 0} />}
      filters={<Filters filters={FAILED_FILTERS} label="Which failed messages" />}
      polled={polled}
    >
      {({ groups, more }) => (
        <>{groups.length === 0 ? <Nothing filtered={filtered} /> : <Groups groups={groups} more={more} />}</>
      )}
    </Frame>
  )
}

function Tools({ where, some }: { readonly where: FailedQueryView; readonly some: boolean }) {
  if (!some) return null
  const what = Object.keys(where).length > 0 ? 'all that match' : 'all'
  return (
    <>
      <Link to={`failed/list${query({ ...where })}`} class="button">
        As a list
      </Link>
      <Do needs="operator" action={() => bulk('retry', where)}>
        Retry {what} …
      </Do>
      <Do needs="admin" danger action={() => bulk('discard', where)}>
        Discard {what} …
      </Do>
    </>
  )
}

function Nothing({ filtered }: { readonly filtered: boolean }) {
  return filtered ? (
    <Empty title="No failed message matches">
      <p>
        Change the conditions above, or look at <Link to="failed">all failed messages</Link>.
      </p>
    </Empty>
  ) : (
    <Empty title="Nothing has failed" command="npx hapax failed list --group">
      <p>
        A message comes here when its attempts are used up, or when its handler says that trying again is of no use.
        From here it can be retried, edited, or discarded. The same by the command line:
      </p>
    </Empty>
  )
}

function Groups({ groups, more }: GroupsView) {
  const total = groups.reduce((all, each) => all + each.count, 0)
  return (
    <>
      <p class="dim">
        {plural(total, 'message')} in {more ? 'the ' : ''}
        {plural(groups.length, more ? 'largest group' : 'group')}
        {more ? '. There are more groups: filter, or see all messages as a list.' : ''}
      </p>
      <ul class="groups">
        {groups.map((group) => (
          <Group
            key={`${group.origin} ${group.scope} ${group.type} ${group.errorHash} ${group.reason}`}
            group={group}
          />
        ))}
      </ul>
    </>
  )
}

function Group({ group }: { readonly group: GroupView }) {
  const { origin, scope, type, reason, count: number, firstAt, lastAt, error } = group
  const where = groupWhere(group)
  const name = `${type} of ${scope}`
  return (
    <li class="card group">
      <div class="group-count">
        <Link to={`failed/list${query({ ...where })}`}>{count(number)}</Link>
      </div>
      <div class="group-what">
        <p>
          <code>{type}</code> of {origin === 'outbox' ? 'relay ' : ''}
          <strong>{scope}</strong> <State name={reason} />
        </p>
        <p class="group-error">
          <bdi>{error.name}</bdi>: <bdi>{error.message}</bdi>
        </p>
        <p class="dim">
          first <Time at={firstAt} />, last <Time at={lastAt} />
        </p>
      </div>
      <div class="row-buttons">
        <Link to={`failed/list${query({ ...where })}`} class="button">
          Messages<span class="hidden"> like {name}</span>
        </Link>
        <Do needs="operator" action={() => bulk('retry', where)} label={`Retry all like ${name}`}>
          Retry …
        </Do>
        <Do needs="admin" danger action={() => bulk('discard', where)} label={`Discard all like ${name}`}>
          Discard …
        </Do>
      </div>
    </li>
  )
}
