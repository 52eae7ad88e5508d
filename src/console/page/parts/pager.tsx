import { place, setQuery } from '../state/router.ts'

/** Leads to the next page of a list, and back to the first. */
export function Pager({ cursor, shown }: { readonly cursor: string | null; readonly shown: number }) {
  const here = place.value.query.get('cursor')
  if (cursor === null && here === null) return null
  return (
    <div class="pager">
      {here === null ? null : (
        <button type="button" onClick={() => setQuery({ cursor: '' })}>
          Back to the first page
        </button>
      )}
      {cursor === null ? (
        <span class="dim">This is the end.</span>
      ) : (
        <button type="button" onClick={() => setQuery({ cursor })}>
          {shown === 0 ? 'Look further' : 'Next page'}
        </button>
      )}
      {shown === 0 && cursor !== null ? (
        <span class="dim">Nothing here matches, but there is more to look at.</span>
      ) : null}
    </div>
  )
}
