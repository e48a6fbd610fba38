from datetime import date

from shelf.loans import Loans


def test_a_loan_is_due_after_fourteen_days_and_gone_when_the_book_is_back():
    loans = Loans()
    loan = loans.lend("1", "Ada", date(2026, 3, 2))
    assert loan.due == date(2026, 3, 16)
    assert loans.open_loans() == [loan]
    loans.bring_back("1")
    assert loans.open_loans() == []
