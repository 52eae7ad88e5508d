import type { Signal } from '@preact/signals'
import type { ErrorView } from '../../api.ts'

/** Whether the effects of a message have to be checked before a retry. */
export function needsCheck(error: Pick<ErrorView, 'code'> | null): boolean {
  return error?.code === 'broken-atomicity'
}

/** The checkbox that confirms that the effects of a message were checked. */
export function EffectsChecked({ checked, what }: { readonly checked: Signal<boolean>; readonly what: string }) {
  return (
    <div class="field">
      <p id="checked-hint">
        Its handler ended its transaction itself, or may have: some of its writes and publishes may be committed, and a
        retry would repeat them.
      </p>
      <label>
        <input
          type="checkbox"
          name="effectsChecked"
          aria-describedby="checked-hint"
          checked={checked.value}
          onChange={(event) => {
            checked.value = event.currentTarget.checked
          }}
        />{' '}
        {what}
      </label>
    </div>
  )
}
