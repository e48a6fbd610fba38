from shelf.books import Book, Shelf
from shelf.store import load, save


def test_a_shelf_survives_saving(tmp_path):
    shelf = Shelf()
    shelf.add(Book("1", "First", "Someone"))
    save(shelf, tmp_path / "shelf.json")
    assert load(tmp_path / "shelf.json").get("1").author == "Someone"
