import { place, setQuery } from '../state/router.ts'

/** A condition that a list can have; `exact`: spaces around a text belong to it. */
export type Filter = {
  readonly name: string
  readonly title: string
} & (
  | { readonly kind: 'text'; readonly exact?: true }
  | { readonly kind: 'time' }
  | { readonly kind: 'choice'; readonly of: readonly Choice[] }
)

type Choice = readonly [value: string, title: string]

// In a narrow window the rows come first.
const WIDE = matchMedia('(min-width: 821px)')

/** Conditions of a list. They are in the address, so that a list can be bookmarked and sent to somebody. */
export function Filters({ filters, label }: { readonly filters: readonly Filter[]; readonly label: string }) {
  const { query } = place.value
  const set = filters.some(({ name }) => query.has(name))
  const change = (name: string, value: string): void => setQuery({ [name]: value, cursor: '' }, { replace: true })
  return (
    <details class="filter-box" open={set || WIDE.matches}>
      <summary>Filter</summary>
      <form class="filters" aria-label={label} onSubmit={(event) => event.preventDefault()}>
        {filters.map((filter) => (
          <label key={filter.name} class="field" htmlFor={`filter-${filter.name}`}>
            <span>{filter.title}</span>
            <Field
              filter={filter}
              value={query.get(filter.name) ?? ''}
              change={(value) => change(filter.name, value)}
            />
          </label>
        ))}
        {set ? (
          <button
            type="button"
            class="quiet"
            onClick={() => setQuery({ ...Object.fromEntries(filters.map(({ name }) => [name, ''])), cursor: '' })}
          >
            Clear
          </button>
        ) : null}
      </form>
    </details>
  )
}

interface FieldProps {
  readonly filter: Filter
  readonly value: string
  readonly change: (value: string) => void
}

function Field({ filter, value, change }: FieldProps) {
  const shared = { name: filter.name, id: `filter-${filter.name}` }
  if (filter.kind === 'choice') {
    return (
      <select {...shared} value={value || filter.of[0]?.[0]} onChange={(event) => change(event.currentTarget.value)}>
        {filter.of.map(([each, title]) => (
          <option key={each} value={each} selected={each === (value || filter.of[0]?.[0])}>
            {title}
          </option>
        ))}
      </select>
    )
  }
  if (filter.kind === 'time') {
    return (
      <input
        {...shared}
        type="datetime-local"
        step={1}
        value={localText(value)}
        onChange={(event) => change(isoText(event.currentTarget.value))}
      />
    )
  }
  return (
    <input
      {...shared}
      type="text"
      autocomplete="off"
      spellcheck={false}
      value={value}
      onChange={({ currentTarget: { value: typed } }) => change(filter.exact ? typed : typed.trim())}
    />
  )
}

/** As a field for local times has it. */
function localText(iso: string): string {
  const at = new Date(iso)
  if (Number.isNaN(at.getTime())) return ''
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

function isoText(local: string): string {
  const at = new Date(local)
  return local === '' || Number.isNaN(at.getTime()) ? '' : at.toISOString()
}
